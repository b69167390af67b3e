"""Model types of transformers 5.23 that are transformers and yet not read, each with the reason that a person is told."""

from __future__ import annotations

# What a person is told, and the model types that it is told of
_GROUPS: dict[str, str] = {
    "it is a network of convolutions, whose layers have no rows here": """
        bit convnext convnextv2 efficientnet hgnet_v2 levit mobilenet_v1 mobilenet_v2 mobilevit mobilevitv2 poolformer
        pp_lcnet regnet resnet swiftformer textnet dinov3_convnext focalnet pvt pvt_v2 segformer glpn cvt superpoint superglue
        uvdoc pp_lcnet_v3 timm_backbone timm_wrapper univnet pp_lcnet_v4
    """,
    "it finds boxes, masks, depth or points in images, with heads and stages that have no rows here": """
        conditional_detr d_fine dab-detr deformable_detr deimv2 detr dpt depth_pro depth_anything prompt_depth_anything
        zoedepth edgetam edgetam_video edgetam_vision_model efficientloftr eomt grounding-dino mm-grounding-dino lightglue
        lw_detr mask2former maskformer maskformer-swin omdet-turbo oneformer owlv2 owlvit pp_doclayout_v2 pp_doclayout_v3
        pp_doclayout_v4 pp_ocrv5_mobile_det pp_ocrv5_mobile_rec pp_ocrv5_server_det pp_ocrv5_server_rec pp_ocrv6_medium_det
        pp_ocrv6_small_det pp_ocrv6_small_rec pp_ocrv6_tiny_rec pp_formulanet rf_detr rt_detr rt_detr_resnet rt_detr_v2 sam
        sam2 sam2_hiera_det_model sam2_video sam2_vision_model sam3 sam3_lite_text sam3_lite_text_text_model sam3_tracker
        sam3_tracker_video sam3_video sam3_vision_model sam3_vit_model sam_hq sam_hq_vision_model sam_vision_model sapiens2
        seggpt swin2sr table-transformer upernet vitmatte vitpose vitpose_backbone yolos vitdet slanext slanet rf_detr_dinov2
        eomt_dinov3 pp_chart2table tvp mgp-str clipseg groupvit radio tipsv2 tipsv2_vision_model tipsv2_text_model videoprism
        videoprism_vision_model
    """,
    "it hears or speaks: convolutions over sound, and what joins them to a decoder, have no rows here (Whisper is read)": """
        audio-spectrogram-transformer audioflamingo3 audioflamingo3_encoder bark canary clap clvp cohere_asr csm dac
        data2vec-audio dia encodec fastspeech2_conformer fastspeech2_conformer_with_hifigan fun_asr_nano fun_asr_nano_encoder
        gemma3n_audio gemma4_audio glmasr glmasr_encoder gradium_phonon_tts granite_speech granite_speech_plus
        granite_speech5_ctc granite_speech5_encoder higgs_audio_v2 higgs_audio_v2_tokenizer hubert kyutai_speech_to_text
        lasr_ctc lasr_encoder mimi mimi_decoder mimi_encoder moonshine moonshine_streaming moonshine_streaming_encoder moshi
        moss_transcribe_diarize moss_transcribe_diarize_audio musicflamingo musicgen musicgen_melody nemo_speechlm
        nemotron3_5_asr nemotron3_5_transcribe_asr_audio nemotron3_5_transcribe_audio nemotron3_5_transcribe_word_timestamp
        nemotron3_diarization nemotron3_diarization_audio nemotron_asr_streaming nemotron_asr_streaming_encoder neucodec
        parakeet_ctc parakeet_encoder parakeet_rnnt parakeet_tdt pe_audio pe_audio_encoder pe_audio_video
        pe_audio_video_encoder pe_video pe_video_encoder pocket_tts pocket_tts_audio_tokenizer
        pocket_tts_audio_tokenizer_decoder pocket_tts_audio_tokenizer_encoder pop2piano qwen2_audio qwen2_audio_encoder
        qwen3_asr qwen3_asr_encoder seamless_m4t_v2 sew sew-d speech-encoder-decoder speecht5 unispeech unispeech-sat
        vibevoice vibevoice_asr vibevoice_acoustic_tokenizer vibevoice_acoustic_tokenizer_decoder
        vibevoice_acoustic_tokenizer_encoder vits voxtral voxtral_encoder voxtral_realtime voxtral_realtime_encoder
        voxtral_realtime_text wav2vec2 wav2vec2-bert wav2vec2-conformer wavlm xcodec xcodec2 muse_spark_audio phi4_multimodal
        qwen2_5_omni qwen2_5_omni_thinker qwen3_omni_moe qwen3_omni_moe_thinker nemotron_h_omni inkling_mm_model
    """,
    "it reads series of numbers, not tokens": """
        autoformer informer patchtsmixer patchtst time_series_transformer timesfm timesfm2_5 decision_transformer
    """,
    "it reads films, whose frames have no rows here": """
        timesformer videomae vivit vjepa2 xclip video_llava video_llama_3 video_llama_3_vision llava_next_video
        instructblipvideo
    """,
    "its encoder attends, embeds or pools in a way of its own that has no rows here (BERT and its relatives are read)": """
        big_bird bigbird_pegasus canine convbert flaubert fnet funnel ibert led longformer longt5 luke mobilebert mra
        nystromformer perceiver rembert roc_bert roformer splinter squeezebert tapas xlm xmod yoso layoutlm layoutlmv2
        layoutlmv3 lilt markuplm bros gte jina_embeddings_v3 esmc modernvbert ultrabert ultravbert neomme altclip dpr
        openai_privacy_filter
    """,
    "an encoder with a decoder of another form than T5, BART and its relatives, and Whisper have, which are read": """
        encoder-decoder fsmt mvp nllb-moe pegasus_x prophetnet switch_transformers t5gemma t5gemma2 t5gemma2_encoder udop
        trocr vision-encoder-decoder vision-text-dual-encoder bert-generation
    """,
    "an image encoder of another form than ViT, DeiT, DINOv2, CLIP and SigLIP have, which are read": """
        aimv2 aimv2_vision_model data2vec-vision dinat donut-swin hiera imagegpt metaclip_2 chinese_clip
        chinese_clip_vision_model mlcd mlcd_vision_model pixio swinv2 vit_msn align blip_2_qformer blip bridgetower flava
        lxmert vilt visual_bert siglip2_vision_model kosmos-2 kosmos-2.5
    """,
    "it is a part of another model; give the config.json of the whole one": """
        EvollaModel aimv2_text_model align_text_model align_vision_model altclip_text_model altclip_vision_model
        blip_2_vision_model blip_text_model blip_vision_model blt_global_transformer blt_local_decoder blt_local_encoder
        blt_patcher bridgetower_text_model bridgetower_vision_model canary_decoder chameleon_vqgan chinese_clip_text_model
        clap_audio_model clap_text_model clipseg_text_model clipseg_vision_model clvp_decoder clvp_encoder
        cohere_compass_vision cosmos3_edge_vision csm_depth_decoder_model deepseek_ocr2_encoder deepseek_ocr2_sam_vision_model
        deepseek_ocr2_vision dia_decoder dia_encoder dots3_note_audio_encoder dots3_note_vision_encoder edgetam_mask_decoder
        edgetam_prompt_encoder edgetam_video_mask_decoder edgetam_video_prompt_encoder emu3_text_model emu3_vqgan
        ernie4_5_vl_moe_vision exaone4_5_vision fastspeech2_conformer_hifigan flava_image_codebook flava_image_model
        flava_multimodal_model flava_text_model florence_vision gemma3n_vision gemma4_assistant gemma4_unified_assistant
        gemma4_unified_audio gemma4_unified_vision gemma4_vision git_vision_model glm4v_moe_vision glm4v_vision
        glm5_next_vision glm_image_vision glm_image_vqmodel glm_ocr_vision got_ocr2_vision granite_docling_vision
        granite_speech_encoder granite_speech_plus_encoder groupvit_text_model groupvit_vision_model hunyuan_vl_vision
        idefics2_perceiver idefics2_vision idefics3_vision idefics_perciever idefics_vision inkling2_vision inkling_audio
        inkling_vision instructblip_qformer instructblip_vision_model instructblipvideo_qformer instructblipvideo_vision_model
        internvl_vision janus_vision_model janus_vqgan kimi_k25_vision kosmos_2_5_text_model kosmos_2_5_vision_model
        kosmos_2_text_model kosmos_2_vision_model lfm3_vl_vision llama4_vision_model lw_detr_vit metaclip_2_text_model
        metaclip_2_vision_model minicpm_ocr_vision minicpmv4_6_vision minicpmv4_7_vision minimax_m3_vl_vision
        mllama_vision_model molmo2_adapter molmo2_vision moshi_depth muse_glimmer_assistant muse_glimmer_vision
        muse_spark_vision musicgen_decoder musicgen_melody_decoder ovis2_vision owlv2_text_model owlv2_vision_model
        owlvit_text_model owlvit_vision_model paddleocr_vl_vision phi4_multimodal_audio phi4_multimodal_vision
        pix2struct_text_model pix2struct_vision_model pixtral pp_chart2table_vision pp_formulanet_vision qianfan_ocr_vision
        qwen2_5_omni_audio_encoder qwen2_5_omni_bigvgan qwen2_5_omni_dit qwen2_5_omni_talker qwen2_5_omni_token2wav
        qwen2_5_omni_vision_encoder qwen2_5_vl_vision qwen2_vl_vision qwen3_5_moe_vision qwen3_5_vision
        qwen3_omni_moe_audio_encoder qwen3_omni_moe_talker_code_predictor qwen3_omni_moe_vision_encoder qwen3_vl_moe_vision
        qwen3_vl_vision qwen4_exp_vision sam2_mask_decoder sam2_prompt_encoder sam2_video_mask_decoder
        sam2_video_prompt_encoder sam3_detr_decoder sam3_detr_encoder sam3_geometry_encoder sam3_lite_text_detr_decoder
        sam3_lite_text_detr_encoder sam3_lite_text_geometry_encoder sam3_lite_text_mask_decoder sam3_mask_decoder
        sam3_tracker_mask_decoder sam3_tracker_prompt_encoder sam3_tracker_video_mask_decoder
        sam3_tracker_video_prompt_encoder sam_hq_mask_decoder sam_hq_prompt_encoder sam_mask_decoder sam_prompt_encoder
        sapiens2_head siglip2_text_model siglip_text_model slanext_vision smolvlm_vision speecht5_hifigan step3p5_vision
        t5_gemma_module t5gemma2_decoder tipsv2_dpt unlimited_ocr_sam_vision_model unlimited_ocr_vision
        unlimited_ocr_vision_encoder uvdoc_backbone vibevoice_diffusion videoprism_text_model xclip_text_model
        xclip_vision_model
    """,
    "its layers hold a block of their own that has no rows here": """
        axk2 bailing_hybrid beam blt cpmant hrm_text hy_v4 jev aria_text cohere_compass_text cosmos3_edge_text
        deepseek_ocr2_text diffusion_gemma_text dots3_note_text embedding_gemma2_text ernie4_5_vl_moe_text glm5_next_text
        glm_image_text granite4_vision_text granite_docling_text hunyuan_vl_text hy_v4 inkling2_text inkling_text
        mistral_large4_text molmo2_text muse_glimmer_text muse_spark_text paddleocr_vl_text pp_formulanet_text
        qwen2_5_omni_text qwen3_omni_moe_talker_text qwen3_omni_moe_text qwen4_exp_text t5gemma2_text unlimited_ocr_text
    """,
    "its tower, or what joins it to the decoder, has no rows here; give its text_config as a config of its own to count the decoder": """
        blip-2 cosmos3_omni deepseek_vl deepseek_vl_hybrid exaone4_5 fast_vlm florence2 fuyu glmga got_ocr2
        hyperclovax_vision_v2 idefics2 instructblip janus lfm2_vl lfm3_vl minicpm_ocr minicpmv4_6 minicpmv4_7 ovis2
        perception_lm qianfan_ocr shieldgemma2
    """,
    "its decoder, or its tower with what joins the two, has no rows here": """
        aria chameleon chmv2 cohere_compass colmodernvbert colpali colqwen2 cosmos3_edge deepseek_ocr2 diffusion_gemma
        dots3_note embedding_gemma2 emu3 ernie4_5_vl_moe esmfold2 evolla git glm5_next glm_image granite4_vision
        granite_docling hunyuan_vl idefics inkling2 layoutxlm mistral_large4 molmo2 muse_glimmer muse_spark nougat
        paddleocr_vl pi0 pix2struct qwen4_exp rag unlimited_ocr videomt
    """,
}
_PAIR = "an encoder with a decoder of another form than T5, BART and its relatives, and Whisper have, which are read"
_IMAGE = "an image encoder of another form than ViT, DINOv2, CLIP and SigLIP have, which are read"
REFUSED: dict[str, str] = {
    **{name: reason for reason, names in _GROUPS.items() for name in names.split()},
    **dict.fromkeys(
        ("deberta", "deberta-v2"), "its attention scores positions apart from contents, which has no rows here"
    ),
    "albert": "its layers are one layer's weights run again and again, which has no rows here",
    "esm": "its embedding and contact head have no rows here",
    **dict.fromkeys("m2m_100 seamless_m4t speech_to_text".split(), _PAIR),
    **dict.fromkeys("siglip2 dinov3_vit beit swin vit_mae".split(), _IMAGE),
    **dict.fromkeys(
        ("gemma3n",),
        "its towers (MobileNet, sound) have no rows here; give its text_config as a config of its own to count the decoder",
    ),
    **dict.fromkeys(
        "gemma4_unified gemma4_unified_text".split(),
        "its one decoder for text, images and sound has no rows here; gemma4 is read",
    ),
    **dict.fromkeys(
        ("jetmoe",),
        "its mixture of attention heads has no rows here",
    ),
    **dict.fromkeys(
        "xlstm reformer xlnet transfo-xl zaya olmo_hybrid_moe".split(),
        "its mixer or memory is not among those read here",
    ),
    "kimi_k3": "its attention over the outputs of earlier layers and its gated latent attention have no rows here",
    "zamba": "its shared block beside Mamba-1 in several heads has no rows here; zamba2 is read",
}
